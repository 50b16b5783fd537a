#!/bin/sh
# Programs that some tests need and pip does not have: a browser, a proxy, a database server, and
# strace. Debian's root installs what is missing; anybody else is told, and those tests skip.

missing=""
command -v chromium >/dev/null || missing="$missing chromium"
command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || missing="$missing nginx-light"
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing="$missing postgresql"
command -v strace >/dev/null || missing="$missing strace"
[ -z "$missing" ] && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	export DEBIAN_FRONTEND=noninteractive
	# Whatever a package starts by itself must not take a port: tests start their own.
	if [ ! -e /usr/sbin/policy-rc.d ]; then
		printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d && chmod +x /usr/sbin/policy-rc.d
		trap 'rm -f /usr/sbin/policy-rc.d' EXIT
	fi
	timeout 120 apt-get update -q >/dev/null 2>&1
	# shellcheck disable=SC2086 - one word for each package
	timeout 600 apt-get install -q -y --no-install-recommends $missing >/dev/null 2>&1 && exit 0
fi
echo "not here, so tests that need them are skipped:$missing"
