#!/bin/sh
# Gives the cluster named by the first argument its keys, once, and leaves the public one where others find it.
set -eu
keys=/var/lib/iris-fed/keys
[ -e "$keys/signing-key.pem" ] || iris-fed keys init "$keys" > /dev/null
iris-fed keys show "$keys/signing-key.pem" | sed -n '/BEGIN/,/END/p' > "/exchange/$1.pem.new"
mv "/exchange/$1.pem.new" "/exchange/$1.pem"
