"""Changes the code in small ways, and shows which changes no test notices: `python -m tools.mutation`."""
