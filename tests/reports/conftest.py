import pytest

import jax_ipu
from support.report_programs import PROGRAMS, TARGET


@pytest.fixture(scope="module", params=PROGRAMS)
def made(request):
    """The name of a program, its report and its estimate."""
    fun, args, donated = PROGRAMS[request.param]
    given = jax_ipu.report(fun, *args, target=TARGET, donate_argnums=donated)
    return request.param, given, jax_ipu.estimate(fun, *args, target=TARGET, donate_argnums=donated)
