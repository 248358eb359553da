"""Owns calibration: thresholds that keep a stated risk, learned gates, and the checks whether they still fit."""
