"""report.html: one self-contained page that tells what a conversion did, skipped and measured.

    content_from_bundle (content.py)  what is known, read once
      -> story.py, layers.py, sensitivity.py, calibration.py, latency.py    what each section says, as values
      -> plots.py                     static SVG that takes the page's colours
      -> render.py                    templates/ filled in, styles and script inside

Needs the extra `report`; nothing here imports onnx. `fts report` runs on the base install with that extra.
"""
