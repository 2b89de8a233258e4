"""What every other part stands on: errors, amounts, wording, files, the machine, certificates."""
