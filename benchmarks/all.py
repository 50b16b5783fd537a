"""Run all benchmarks, each in a process of its own; options are passed on."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = sorted(path for path in HERE.glob("*.py") if path.stem not in ("all", "measure"))

if __name__ == "__main__":
    for script in SCRIPTS:
        print(f"\n== {script.stem}", flush=True)
        subprocess.run([sys.executable, str(script), *sys.argv[1:]], check=True)
