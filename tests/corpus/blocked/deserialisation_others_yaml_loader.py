# rule: deserialisation/yaml
# effect: writes
import yaml
yaml.load("!!python/object/apply:os.system [': > canary']", Loader=yaml.Loader)
