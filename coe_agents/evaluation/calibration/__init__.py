"""Owns calibration: thresholds that keep a stated risk, learned weights, and the checks whether they still fit."""
