# rule: imports/private-member
# effect: prints
import dataclasses
dataclasses._create_fn("f", [], ["print('PWN'+'ED')"])()
