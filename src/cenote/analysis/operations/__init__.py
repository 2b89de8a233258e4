"""Operations: the code that stages run. One file each; the file's name is the operation's name in YAML."""
