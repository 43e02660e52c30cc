"""How many runs to train as one, on how large a share of a device, and how long that will take: chosen from what was
measured on the device before, from typical rates where nothing was. Pure: measurements in, decisions out."""
