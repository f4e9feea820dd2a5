"""The course as a static site: executed notebooks, a glossary, the symptom map with a search box, the ladder.

Sphinx with MyST-NB and the theme Furo build it. It opens from a file share, needs no server, and asks nothing
of another machine. (Jupyter Book 2 fetches its theme over the network at each build.)
"""
