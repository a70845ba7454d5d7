"""What is written over: state that is updated in place, also in loops and branches, and in host memory."""
