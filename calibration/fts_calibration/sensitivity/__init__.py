"""What each unit alone costs in INT8: measured, or estimated; one method a file, all answer with a `SensitivityTable`.

exhaustive.py         the truth: the net is run with one unit after another in INT8
pilot.py              most units on few of the samples, the rest filled in
fisher.py             the unit's own error times the outputs' gradient (extra `torch`)
local_sqnr.py         the unit's own error beside its own signal
activation_spread.py  how much longer a tensor's range is than its spread; nothing runs in INT8
"""
