"""Nets that come with Q/DQ: their grids are kept as they are, and nothing is quantized that was not.

    load:     integer_operators  every quantized operator spelled as DQ -> op -> Q
    prepare:  float_form         the net with Q/DQ spelled in float operators: the portable net, and the reference
              spread_grids       grids moved across operators that only move values, so that more units are whole
              integer_units      which groups DQ -> op -> Q an integer kernel computes exactly, and why not the others
    convert:  encode_given       those groups in the form of the target's dialect, all else in float

Passes see Q and DQ as operators they know nothing of: a weight behind DQ is no constant to them, so that no fold changes
what a grid belongs to.
"""
