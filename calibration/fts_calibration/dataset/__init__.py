"""`--calib` and `--holdout`: what lies under a path becomes feeds, file by file, each used or skipped with a reason.

source.py  open_calibration: which of the four forms a path is
  pictures.py         a folder of pictures, through the preprocessing that the app uses
  npz_folder.py       a folder of .npz, one feed each
  npz_samples.py      one .npz with a sample axis
  python_iterable.py  package.module:iterable
splits.py  deal_splits: calibrate, calibrate, select, verify
"""
