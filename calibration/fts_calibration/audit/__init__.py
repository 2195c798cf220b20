"""The audit of calibration data: what would make ranges and figures mislead, found before anything is measured.

look.py             what is kept of a sample: figures, thumbnail, hash; watch.py takes the looks while data is opened
audit_set.py        every check of the set alone, in order; finding.py what a check says
  contents.py       constant-data, random-data, underexposed, overexposed, flat-data, graphics, uniform-border
  value_range.py    value-range, channel-layout: raw tensors against the declared contract
  colors.py         grey-pictures, color-cast, color-order
  repetition.py     duplicates, near-duplicates (perceptual_hash.py), one-scene
  size.py           too-few, low-detail
  faces.py          faces-turned, faces-size, faces-contrast, faces-covered, from --faces (boxes_json.py)
with the net:
  contract.py       contract: the net's batch norms against the declared colours and range
  stable_ranges.py  unstable-ranges: halves against each other, "about n more photos"
  activation_divergence.py  activations-moved: KL(FP32 || INT8)
select_covering.py  --select: the N pictures that cover a folder best
not-finite is an error while the data is opened (dataset/input_request.py).
"""
