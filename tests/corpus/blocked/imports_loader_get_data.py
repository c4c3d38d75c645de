# rule: imports/loaders
# effect: reads
print(__loader__.get_data("secret.txt"))
