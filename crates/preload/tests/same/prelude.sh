# What every script here starts with: the working directory is empty and its own, and $D is its name. A command
# that fails says so, so that exit statuses are compared without being asked for.
unset BASH_ENV
umask 022
set -o errtrace
trap 'echo "[$?] $BASH_COMMAND"' ERR
