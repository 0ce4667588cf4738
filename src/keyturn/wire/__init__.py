"""What a server and its clients say to each other, as data: one struct for each body and each answer."""
