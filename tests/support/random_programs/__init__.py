"""Operations of random programs, a file for each family; `support.programs` draws of them."""
