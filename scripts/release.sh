#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds a release into out/release/: container images, charts, Debian packages, static programs, bill of materials, notes, checksums and
# their signature. The same commit gives the same bytes in each folder. Called by `make release`.
#
#   RELEASE_KEY=FILE     sign with this secret key of minisign: a file outside the tree, or /dev/fd/N. Without it the release is unsigned
#   RELEASE_SBOM=no      without the bill of materials, whose tool takes minutes to build
#   RELEASE_LOCKED=      also with a tag, use the Debian packages that this machine has, and not those of images/debian.lock
#   RELEASE_BUILT=yes    take bin/ and out/images/ as they are, also of another commit: for tests
#
# The key is checked first and used last. Only minisign gets its name or its descriptor; the other programs run as the same user, though.
set -euo pipefail
umask 022
export LC_ALL=C TZ=UTC
cd "$(dirname "$0")/.."

fail() {
	echo "release.sh: $1" >&2
	exit 1
}

key=${RELEASE_KEY:-} descriptor=''
unset RELEASE_KEY MAKEFLAGS MFLAGS # those of make have the key's name, too
case $key in
/dev/fd/* | /proc/self/fd/*) descriptor=${key##*/} ;;
esac
version=$(scripts/release-version.sh)
commit=$(scripts/commit.sh)
architecture=$(dpkg --print-architecture)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0)
export SOURCE_DATE_EPOCH
out=out/release.new # becomes out/release at the end
repository=https://github.com/kubernetsn/kubernetsn
stage=$(mktemp -d)
trap 'rm -rf "$stage" "$out"' EXIT
rm -rf "$out"
mkdir -p "$out"

check_key() {
	[ -n "$key" ] || return 0
	[ -r "$key" ] || fail "RELEASE_KEY: $key cannot be read; name the secret key that \`minisign -G\` made"
	case $(realpath "$key") in
	"$(realpath .)"/*) fail "RELEASE_KEY: $key is inside the tree, where a commit can include it; move it" ;;
	esac
	[[ $version = *-dev* ]] || git cat-file -e HEAD:packaging/kubernetsn.pub 2>/dev/null ||
		fail "the commit has no packaging/kubernetsn.pub, by which users verify; commit the public key and move the tag"
}

build() {
	local locked=''
	[[ $version = *-dev* ]] || locked=${RELEASE_LOCKED---locked}
	make --no-print-directory images IMAGES_FLAGS="$locked ${IMAGES_FLAGS:-}"
	make --no-print-directory release-tools
	[ "${RELEASE_SBOM:-}" = no ] || make --no-print-directory syft
	[[ $(bin/ktsn --version) = *"($commit, "* ]] || fail "bin/ktsn is not of the commit $commit: the tree changed during the build; repeat it"
}

# Writes a folder as a tar file without owners, dates and an order of the file system.
pack() { # file, parent, folder
	tar --sort=name --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu -C "$2" -c "$3" | gzip -9n >"$1"
}

# Sets images to the archives, and packages to PACKAGE=VERSION of the Debian packages with files in them, which a label of each image names.
find_images() {
	local definition archive digest
	images=()
	for definition in images/*.yaml; do
		archive=out/images/$(basename "$definition" .yaml).tar
		[ -f "$archive" ] || fail "there is no $archive; run \`make images\`"
		images+=("$archive")
	done
	packages=$(for archive in "${images[@]}"; do
		digest=$(tar -xOf "$archive" index.json | jq -r '.manifests[0].digest')
		digest=$(tar -xOf "$archive" "blobs/${digest/://}" | jq -r '.config.digest')
		tar -xOf "$archive" "blobs/${digest/://}" | jq -r '.config.Labels["kubernetsn.io/debian-packages"] // empty'
	done | tr ' ' '\n' | sort -u)
}

# The images, and the program that copies them to a registry.
make_images() {
	bin/ktsn-images --bundle "$stage/images.tar" --tag "$version" "${images[@]}"
	mv "$stage/images.tar" "$out/kubernetsn-$version-images.tar"
	install -m 755 bin/ktsn-push "$out/ktsn-push-$version-linux-$architecture"
}

# A chart whose default values have the digests of the images.
make_chart() { # folder, file
	mkdir -p "$stage/charts" "$stage/packed" "$stage/filled"
	cp -r "charts/$1" "$stage/charts/"
	sed -n 's/^    \([a-z-]*: sha256:\)/    \1/p' "$stage/images.yaml" >"$stage/digests"
	[ -s "$stage/digests" ] || fail "no digests of images are in $stage/images.yaml"
	sed -i -e '/^  digests: {}$/{' -e 's/ {}//' -e "r $stage/digests" -e '}' "$stage/charts/$1/values.yaml"
	grep -q '^    ktsnd: sha256:' "$stage/charts/$1/values.yaml" || fail "charts/$1/values.yaml has no line 'digests: {}' to fill"
	bin/helm package --version "$version" --app-version "$version" --destination "$stage/packed" "$stage/charts/$1" >/dev/null
	tar -xmzf "$stage/packed/$1-$version.tgz" -C "$stage/filled"
	pack "$out/$2-$version.tgz" "$stage/filled" "$1"
}

# Files that packages and tarballs share: programs, man pages, completions, licence and changes.
stage_files() {
	local page program shell
	mkdir -p "$stage/bin" "$stage/man" "$stage/completions" "$stage/doc"
	install -m 755 bin/ktsn bin/ktsn-guest bin/tsn-cni "$stage/bin/"
	for program in ktsnd ktsn-relay ktsn-relay-vhost tsnperf; do
		strip --strip-all -o "$stage/bin/$program" "bin/$program"
	done
	strip --strip-unneeded -o "$stage/bin/libktsn.so" bin/libktsn.so
	chmod 644 "$stage/bin/libktsn.so"
	for page in docs/reference/man/*.[1-8]; do
		gzip -9nc "$page" >"$stage/man/$(basename "$page").gz"
	done
	for program in ktsn ktsn-guest; do
		for shell in bash zsh fish; do
			"bin/$program" completion $shell >"$stage/completions/$program.$shell"
		done
	done
	for program in ktsn ktsn-guest tsn-cni; do
		scripts/licenses.sh "bin/$program" >"$stage/doc/$program.licenses"
		gzip -9nk "$stage/doc/$program.licenses"
	done
	gzip -9nc CHANGELOG.md >"$stage/doc/changelog.gz"
	install -m 644 packaging/deb/copyright docs/reference/tsn-cni.md "$stage/doc/"
}

# The Debian packages that programs of C need, by the symbols that they use.
libraries_of() { # programs...
	mkdir -p "$stage/shlibs/debian/kubernetsn/usr/bin"
	printf 'Source: kubernetsn\n\nPackage: kubernetsn\nArchitecture: any\n' >"$stage/shlibs/debian/control"
	(cd "$stage/bin" && cp -- "$@" "$stage/shlibs/debian/kubernetsn/usr/bin/")
	(cd "$stage/shlibs" && dpkg-shlibdeps -O "${@/#/debian/kubernetsn/usr/bin/}") 2>"$stage/shlibs.log" | sed 's/^shlibs:Depends=//' || {
		cat "$stage/shlibs.log" >&2
		return 1
	}
}

make_packages() {
	local definition package debian
	DEPENDS_KTSND=$(libraries_of ktsnd ktsn-relay ktsn-relay-vhost)
	DEPENDS_LIBKTSN=$(libraries_of tsnperf)
	export VERSION=$version ARCHITECTURE=$architecture STAGE=$stage DEPENDS_KTSND DEPENDS_LIBKTSN
	debian=${version/-dev/\~dev}-1
	for definition in packaging/deb/*.yaml; do
		package=$(basename "$definition" .yaml)
		{
			printf '%s (%s) unstable; urgency=medium\n\n  * Release %s; see changelog.gz.\n\n' "$package" "$debian" "$version"
			printf ' -- KuberneTSN maintainers <maintainers@kubernetsn.io>  %s\n' "$(date -R -d "@$SOURCE_DATE_EPOCH")"
		} | gzip -9n >"$stage/doc/$package.changelog.gz"
		find "$stage" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
		bin/nfpm package --config "$definition" --packager deb --target "$out/" >"$stage/nfpm" 2>&1 || { cat "$stage/nfpm" >&2; fail "cannot make package $package"; }
	done
}

# A tarball of a static program.
make_tarball() { # program, man page
	local name=$1-$version-linux-$architecture
	mkdir -p "$stage/$name/completions"
	cp "$stage/bin/$1" "docs/reference/man/$2" LICENSE "$stage/$name/"
	cp "$stage/doc/$1.licenses" "$stage/$name/THIRD-PARTY-LICENSES"
	cp "$stage/completions/$1".* "$stage/$name/completions/"
	pack "$out/$name.tar.gz" "$stage" "$name"
}

# The bill of materials: Go modules of the programs, and the Debian packages of the images' files, which syft reads in the form of dpkg.
make_sbom() {
	local name package tree=$stage/sbom/kubernetsn
	mkdir -p "$tree/var/lib/dpkg" "$tree/etc"
	cp /etc/os-release "$tree/etc/"
	for name in $(scripts/shipped.sh); do
		if [ -f "$stage/bin/$name" ]; then cp "$stage/bin/$name" "$tree/"; else cp "bin/$name" "$tree/"; fi
	done
	for package in $packages; do
		printf 'Package: %s\nStatus: install ok installed\nVersion: %s\nArchitecture: %s\n\n' "${package%%=*}" "${package#*=}" "$architecture"
	done >"$tree/var/lib/dpkg/status"
	for package in $packages; do # syft reads their licences
		install -D -m 644 -t "$tree/usr/share/doc/${package%%=*}" "/usr/share/doc/${package%%=*}/copyright"
	done
	(cd "$stage/sbom" && SYFT_CHECK_FOR_APP_UPDATE=false SYFT_FILE_METADATA_SELECTION=all "$OLDPWD/bin/syft" scan --quiet \
		dir:kubernetsn --source-name kubernetsn --source-version "$version" --output spdx-json) >"$stage/spdx.json"
	jq --arg version "$version" --arg created "$(date -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" --arg space "$repository/releases/$version/sbom" '
		.creationInfo.created = $created | .documentNamespace = $space |
		(.packages[] | select(.name | startswith("github.com/kubernetsn/kubernetsn")) | .versionInfo) = $version' \
		"$stage/spdx.json" >"$out/kubernetsn-$version.spdx.json"
	jq -e '([.files[] | select(.fileName == "ktsnd") | .checksums[] | select(.checksumValue | test("[1-9a-f]"))] != []) and
		any(.packages[]; .name == "github.com/spf13/cobra") and any(.packages[]; .name == "libc6") and
		all(.packages[]; .versionInfo // "UNKNOWN" | . != "UNKNOWN")' "$out/kubernetsn-$version.spdx.json" >/dev/null ||
		fail "the bill of materials is incomplete: no checksum of ktsnd, no module, no Debian package, or a package without a version"
}

# The licences of all Go modules in the programs, and of the Debian packages in the images.
make_licenses() {
	local name programs=() package text
	for name in $(scripts/shipped.sh go); do
		programs+=("bin/$name")
	done
	{
		scripts/licenses.sh "${programs[@]}"
		echo "The images have files of the Debian packages below. Their sources are at https://snapshot.debian.org, by name and version."
		for package in $packages; do
			printf '\n==== %s\n\n' "${package/=/ }"
			cat "/usr/share/doc/${package%%=*}/copyright"
		done
		for text in $(find /usr/share/common-licenses -type f | sort); do
			printf '\n==== %s\n\n' "$text"
			cat "$text"
		done
	} >"$out/THIRD-PARTY-LICENSES.txt"
}

# The section of the changelog; that of unreleased changes for a development build.
make_notes() {
	local heading
	for heading in "$version" "${version%%-*}" Unreleased; do
		[ "$heading" = "$version" ] || [[ $version = *-dev* ]] || break
		awk -v heading="## [$heading]" 'index($0, heading) == 1 { inside = 1; next } /^## |^\[[^]]*\]: / { inside = 0 } inside' CHANGELOG.md >"$stage/section"
		grep -q '[^ ]' "$stage/section" && break
	done
	grep -q '[^ ]' "$stage/section" || fail "CHANGELOG.md has no section [$version]; write it"
	{
		echo "# KuberneTSN $version"
		# Links to files are to those of the commit.
		sed -E "s|\]\(([^]:#()]+)(#[^()]*)?\)|]($repository/blob/$(git rev-parse HEAD 2>/dev/null || echo main)/\1\2)|g" "$stage/section"
	} >"$out/RELEASE-NOTES.md"
}

sign() {
	(cd "$out" && sha256sum -- * >"$stage/SHA256SUMS" && mv "$stage/SHA256SUMS" .)
	if [ -z "$key" ]; then
		echo "This release is unsigned: it was built without RELEASE_KEY." | tee "$out/UNSIGNED"
		return
	fi
	minisign -S -s "$key" -m "$out/SHA256SUMS" -c "KuberneTSN" -t "kubernetsn $version" || fail "minisign cannot sign with $key"
	[ ! -f packaging/kubernetsn.pub ] || minisign -V -Q -p packaging/kubernetsn.pub -m "$out/SHA256SUMS" >/dev/null ||
		fail "the key is not the one of packaging/kubernetsn.pub, by which users verify"
}

check_key
make_notes
case $version in
*-dev*) echo "release.sh: this commit has no tag, so this is the development build $version" ;;
esac
(
	[ -z "$descriptor" ] || exec {descriptor}<&-
	[ "${RELEASE_BUILT:-}" = yes ] || build
	find_images
	make_images
	make_chart kubernetsn kubernetsn
	make_chart federator kubernetsn-federator
	stage_files
	make_packages
	make_tarball ktsn ktsn.1
	make_tarball ktsn-guest ktsn-guest.8
	[ "${RELEASE_SBOM:-}" = no ] || make_sbom
	make_licenses
)
install -m 755 packaging/verify.sh "$out/"
sign
rm -rf out/release
mv "$out" out/release
du -ah out/release | sort -k 2
