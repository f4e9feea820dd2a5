"""What is drawn: the ladder and the timeline."""
