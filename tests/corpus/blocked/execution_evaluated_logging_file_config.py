# rule: files/logging
# effect: prints
import logging.config, configparser
cp = configparser.ConfigParser()
cp.read_string("[loggers]\nkeys=root\n[handlers]\nkeys=h\n[formatters]\nkeys=\n[logger_root]\nhandlers=h\n"
               "[handler_h]\nclass=print\nargs=('PWN'+'ED',)\n")
try: logging.config.fileConfig(cp)
except Exception: pass
