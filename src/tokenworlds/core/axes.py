"""The legend of axis letters; shape annotations use these and no others.

B  batch            T  time               K  tokens of a frame    V  codes of a token
D  width            C  channels           H, W  height, width     A  actions (or size of a vector)
N  parallel environments (environments)        *rest  free axes
"""
