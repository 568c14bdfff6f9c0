"""The bridge to verl: the only room that imports verl, ray, torch or tensordict."""
