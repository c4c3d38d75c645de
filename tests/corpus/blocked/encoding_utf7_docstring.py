# coding: utf-7
# rule: encoding/declaration
# effect: writes
"""Totals. +ACIAIgAi-
open('canary', 'w').close()
+ACIAIgAi-"""
