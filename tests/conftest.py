import sys
from pathlib import Path

# The tests' own helpers; the package under test is the installed one.
sys.path.insert(0, str(Path(__file__).parent))
