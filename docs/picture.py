"""Makes docs/report.png: the report of a shipped GEMM with the arcs of one access drawn.

python docs/picture.py      needs Chromium (Debian's package `chromium`)
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from exogpu.kernels.gemm_sm90 import KERNELS
from exogpu.report.build import build
from exogpu.report.page import html

KERNEL = "gemm_sm90_2x1_256x192"
PICTURE = Path(__file__).parent / "report.png"
WIDTH, HEIGHT = 1440, 900

# Shows a read of the ring and what orders it, from the theorem down to the loop.
CHOOSE = """<script>
  for (const part of document.querySelectorAll(".facts, .two, nav, .hint")) part.remove();
  document.querySelector("#source h2").remove();
  document.querySelector("header").style.paddingTop = "24px";
  document.querySelector("header").style.maxWidth = "1400px";
  document.querySelector("#source").style.paddingTop = "16px";
  const lines = [...document.querySelectorAll("#code li")];
  const first = lines.findIndex((line) => line.innerText.includes("Arrive(cuda_temporal) >> full"));
  for (const line of lines.slice(0, first - 2)) line.remove();
  [...document.querySelectorAll(".mark.read")]
    .find((mark) => mark.innerText.startsWith("A_smem")).click();
</script>
"""


def main() -> int:
    """Writes the picture."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("docs/picture.py needs Chromium: apt install chromium", file=sys.stderr)
        return 2
    kernel = KERNELS[KERNEL]
    verdict = kernel.check()
    page = html(build(kernel, verdict)).replace("</body>", f"{CHOOSE}</body>")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.html"
        file.write_text(page, encoding="utf-8")
        command = [
            chromium,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={folder}/profile",
            f"--window-size={WIDTH},{HEIGHT}",
            f"--screenshot={PICTURE}",
            file.as_uri(),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    return 0


if __name__ == "__main__":
    sys.exit(main())
