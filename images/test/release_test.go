// SPDX-License-Identifier: Apache-2.0

package test

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// parts are the files of the tree from which scripts/release.sh makes a release, beside bin/ and out/images/.
var parts = []string{
	".gitignore", "CHANGELOG.md", "LICENSE", "charts", "cmd", "docs", "federator/cmd", "images", "internal/shared/version", "kubevirt/cmd", "packaging", "scripts",
}

// built has scripts/release.sh take bin/ and out/images/ of the tree.
var built = []string{"RELEASE_BUILT=yes", "RELEASE_SBOM=no"}

// release makes a release with the tag of its version in a repository in that folder, signed by these keys, and returns the folder of its
// files. The shell redirection gives the secret key as descriptor 3.
func release(t *testing.T, folder, redirection, public, secret string) string {
	t.Helper()
	write(t, filepath.Join(folder, "packaging/kubernetsn.pub"), read(t, public))
	link(t, folder)
	repository(t, folder, parts...)
	must(t, folder, "git", "tag", "v"+strings.TrimSpace(read(t, filepath.Join(folder, "internal/shared/version/VERSION"))))
	output, err := command(folder, append(built, "RELEASE_KEY=/dev/fd/3"), "bash", "-c", "scripts/release.sh 3< "+redirection, secret)
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return filepath.Join(folder, "out/release")
}

// link gives a repository the programs and images of the tree.
func link(t *testing.T, folder string) {
	t.Helper()
	for _, path := range []string{"bin", "out/images"} {
		if err := os.MkdirAll(filepath.Join(folder, path), 0o755); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(root(t), path, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if err := os.Symlink(file, filepath.Join(folder, path, filepath.Base(file))); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func needsBuild(t *testing.T) {
	t.Helper()
	needs(t, "minisign", "lintian", "dpkg-shlibdeps", "jq", "git")
	for _, path := range []string{"bin/ktsn-push", "bin/helm", "bin/nfpm", "out/images/ktsnd.tar", "out/images/ktsn-federator.tar"} {
		if _, err := os.Stat(filepath.Join(root(t), path)); err != nil {
			missing(t, path+" is missing; run `make images release-tools`")
		}
	}
}

func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	needsBuild(t)
	public, secret := keys(t)
	version := strings.TrimSpace(read(t, filepath.Join(root(t), "internal/shared/version/VERSION")))
	folder := release(t, filepath.Join(t.TempDir(), "a"), `"$0"`, public, secret)

	// `make reproducible` compares two builds.
	t.Run("packages the same build equally in another folder", func(t *testing.T) {
		defer syscall.Umask(syscall.Umask(0o077))
		other := release(t, filepath.Join(t.TempDir(), "another folder/of a longer name"), `<(cat "$0")`, public, secret)
		must(t, root(t), "diff", "-r", folder, other)
	})
	t.Run("is verified", func(t *testing.T) {
		must(t, folder, "./verify.sh", public, version)
	})
	t.Run("has packages", func(t *testing.T) { checkPackages(t, folder, version) })
	t.Run("has tarballs", func(t *testing.T) {
		for _, program := range []string{"ktsn", "ktsn-guest"} {
			base := program + "-" + version + "-linux-amd64"
			unpacked := t.TempDir()
			must(t, unpacked, "tar", "-xzf", filepath.Join(folder, base+".tar.gz"))
			if output := must(t, unpacked, filepath.Join(unpacked, base, program), "--version"); !strings.HasPrefix(output, program+" "+version) {
				t.Errorf("%s prints %q", program, output)
			}
		}
	})
	t.Run("has notes and licences", func(t *testing.T) { checkTexts(t, folder) })
	t.Run("fills a registry", func(t *testing.T) { checkRegistry(t, folder, version) })
	t.Run("fills a node", func(t *testing.T) { checkNode(t, folder, version) })
}

// checkPackages extracts the Debian packages and looks at their content.
func checkPackages(t *testing.T, folder, version string) {
	t.Helper()
	packages, err := filepath.Glob(filepath.Join(folder, "*_amd64.deb"))
	if err != nil || len(packages) != 5 {
		t.Fatalf("the packages are %v, %v", packages, err)
	}
	// No bug of Debian asks for the packages; libktsn.so uses the C library of each application, which may be musl.
	must(t, folder, "lintian", append([]string{"--allow-root", "--fail-on", "error,warning", "--suppress-tags",
		"initial-upload-closes-no-bugs,shared-library-lacks-prerequisites"}, packages...)...)
	must(t, folder, "apt-get", append([]string{"install", "--simulate", "--no-install-recommends", "--allow-downgrades"}, packages...)...)
	unpacked := t.TempDir()
	for _, file := range packages {
		must(t, folder, "dpkg-deb", "-x", file, unpacked)
	}
	for _, path := range []string{
		"usr/share/bash-completion/completions/ktsn", "usr/share/zsh/vendor-completions/_ktsn-guest", "usr/share/man/man8/ktsnd.8.gz",
		"usr/share/man/man1/ktsn.1.gz", "usr/share/doc/tsn-cni/tsn-cni.md", "usr/lib/cni/tsn-cni", "usr/lib/ktsn/libktsn.so", "etc/default/ktsnd",
	} {
		if _, err := os.Stat(filepath.Join(unpacked, path)); err != nil {
			t.Error(err)
		}
	}
	for program, path := range map[string]string{
		"ktsn": "usr/bin/ktsn", "ktsn-guest": "usr/sbin/ktsn-guest", "ktsnd": "usr/sbin/ktsnd", "tsnperf": "usr/bin/tsnperf", "ktsn-relay": "usr/lib/ktsn/ktsn-relay",
	} {
		if output := must(t, folder, filepath.Join(unpacked, path), "--version"); !strings.HasPrefix(output, program+" "+version) {
			t.Errorf("%s prints %q", path, output)
		}
	}
	for _, unit := range []string{"ktsnd", "ktsn-relay"} {
		text := read(t, filepath.Join(unpacked, "lib/systemd/system", unit+".service"))
		program := regexp.MustCompile(`(?m)^ExecStart=(\S+)`).FindStringSubmatch(text)
		if _, err := os.Stat(filepath.Join(unpacked, program[1])); err != nil {
			t.Errorf("unit %s: %v", unit, err)
		}
	}
}

// checkTexts looks at the files for people.
func checkTexts(t *testing.T, folder string) {
	t.Helper()
	notes := read(t, filepath.Join(folder, "RELEASE-NOTES.md"))
	if relative := regexp.MustCompile(`\]\([^):]*\)`).FindAllString(notes, -1); len(relative) > 0 {
		t.Errorf("links that lead nowhere: %q", relative)
	}
	licenses := read(t, filepath.Join(folder, "THIRD-PARTY-LICENSES.txt"))
	for _, want := range []string{"\n==== github.com/spf13/cobra v", "\n==== linuxptp 3.1.1-4", "\n==== /usr/share/common-licenses/GPL-2\n"} {
		if !strings.Contains(licenses, want) {
			t.Errorf("THIRD-PARTY-LICENSES.txt lacks %q", want)
		}
	}
}

// imagesOfCharts returns the images that the charts name below a prefix.
func imagesOfCharts(t *testing.T, folder, version, prefix string) []string {
	t.Helper()
	var images []string
	for _, chart := range [][]string{
		{"kubernetsn-" + version + ".tgz", "clock.mode=ptp"}, {"kubernetsn-federator-" + version + ".tgz", "program.tlsSecret=tls"},
	} {
		manifests := must(t, folder, filepath.Join(root(t), "bin/helm"), "template", "x", chart[0], "--kube-version", "1.34.0", "--set", "image.prefix="+prefix, "--set", chart[1])
		for _, image := range regexp.MustCompile(`"?(`+regexp.QuoteMeta(prefix)+`/[a-z-]+@sha256:[0-9a-f]{64})`).FindAllStringSubmatch(manifests, -1) {
			images = append(images, image[1])
		}
		if other := regexp.MustCompile(`(?m)^\s+(- )?image: .*$`).FindAllString(manifests, -1); slices.ContainsFunc(other, func(line string) bool { return !strings.Contains(line, prefix) }) {
			t.Errorf("images of %s are %q", chart[0], other)
		}
	}
	slices.Sort(images)
	images = slices.Compact(images)
	if len(images) < 5 {
		t.Fatalf("the charts name only %q", images)
	}
	return images
}

// checkRegistry fills a registry, and pulls what the charts name there.
func checkRegistry(t *testing.T, folder, version string) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	prefix := strings.TrimPrefix(server.URL, "http://") + "/kubernetsn"
	output := must(t, folder, "./ktsn-push-"+version+"-linux-amd64", "kubernetsn-"+version+"-images.tar", prefix)
	if want := "--set image.prefix=" + prefix + "\n"; !strings.HasSuffix(output, want) {
		t.Fatalf("it prints %q, want %q at the end", output, want)
	}
	for _, image := range imagesOfCharts(t, folder, version, prefix) {
		reference, err := name.ParseReference(image)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := remote.Image(reference); err != nil {
			t.Errorf("a node cannot pull %s: %v", image, err)
		}
	}
}

// checks are the files that scripts/release.sh needs before anything is built.
var checks = []string{".gitignore", "CHANGELOG.md", "internal/shared/version", "scripts/release.sh", "scripts/release-version.sh", "scripts/commit.sh"}

// Nothing is built before the key and the changelog are checked.
func TestReleaseChecksFirst(t *testing.T) {
	needs(t, "git")
	folder := repository(t, t.TempDir(), checks...)
	number := strings.TrimSpace(read(t, filepath.Join(folder, "internal/shared/version/VERSION")))
	secret, inside := filepath.Join(t.TempDir(), "key.sec"), filepath.Join(folder, "key.sec")
	write(t, secret, "secret")
	write(t, inside, "secret")
	refused := func(name, key, want string) {
		t.Run(name, func(t *testing.T) {
			output, err := command(folder, []string{"RELEASE_KEY=" + key}, "scripts/release.sh")
			if err == nil || !strings.Contains(output, want) {
				t.Errorf("got %q, %v, want %q", output, err, want)
			}
		})
	}
	refused("key in the tree", inside, "is inside the tree")
	refused("absent key", secret+".gone", "cannot be read")
	remove(t, inside)
	must(t, folder, "git", "tag", "v"+number)
	refused("no public key", secret, "the commit has no packaging/kubernetsn.pub")
	must(t, folder, "git", "tag", "-d", "v"+number)
	write(t, filepath.Join(folder, "CHANGELOG.md"), "# Changelog\n")
	commitAll(t, folder)
	must(t, folder, "git", "tag", "v"+number)
	refused("no section", "", "CHANGELOG.md has no section ["+number+"]")
}

// The programs of the build get neither the key's name nor its descriptor.
func TestReleaseKeepsKey(t *testing.T) {
	needs(t, "git", "make")
	folder := t.TempDir()
	write(t, filepath.Join(folder, "Makefile"), "release:\n\t@scripts/release.sh\nimages:\n\t@env; ls -l /proc/self/fd; false\n")
	repository(t, folder, checks...)
	secret := filepath.Join(t.TempDir(), "key.sec")
	write(t, secret, "secret")
	for _, key := range []string{secret, "/dev/fd/9"} {
		output, err := command(folder, nil, "bash", "-c", `make release RELEASE_KEY="$1" 9<"$0"`, secret, key)
		if err == nil || !strings.Contains(output, "/proc/") || strings.Contains(output, "RELEASE_KEY") {
			t.Errorf("the build gets %q, %v", output, err)
		}
		if key != secret && strings.Contains(output, secret) {
			t.Errorf("the build gets the descriptor: %q", output)
		}
	}
}

func TestReleaseOfAnotherCommit(t *testing.T) {
	needs(t, "git", "make")
	folder := t.TempDir()
	write(t, filepath.Join(folder, "Makefile"), "release:\n\t@scripts/release.sh\nimages release-tools syft:\n\t@echo made $@\n")
	write(t, filepath.Join(folder, "bin/ktsn"), "#!/bin/sh\necho 'ktsn 0.1.0 (0123456789ab, go1.26)'\n")
	must(t, folder, "chmod", "+x", "bin/ktsn")
	repository(t, folder, checks...)
	output, err := command(folder, nil, "make", "release", "RELEASE_KEY=")
	if err == nil || !strings.Contains(output, "made images\nmade release-tools\nmade syft\n") || !strings.Contains(output, "bin/ktsn is not of the commit ") {
		t.Errorf("got %q, %v", output, err)
	}
}

func TestReleaseKey(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	needsBuild(t)
	folder := repository(t, t.TempDir(), parts...)
	link(t, folder)
	_, secret := keys(t)
	unsigned := filepath.Join(folder, "out/release/UNSIGNED")
	output, err := command(folder, append(built, "RELEASE_KEY="), "scripts/release.sh")
	if err != nil || !strings.Contains(output, "This release is unsigned") || !strings.Contains(output, "this is the development build") {
		t.Errorf("got %q, %v", output, err)
	}
	if text := read(t, unsigned); !strings.Contains(text, "unsigned") {
		t.Errorf("UNSIGNED has %q", text)
	}
	t.Run("that does not match the public key", func(t *testing.T) {
		public, _ := keys(t)
		write(t, filepath.Join(folder, "packaging/kubernetsn.pub"), read(t, public))
		output, err := command(folder, append(built, "RELEASE_KEY="+secret), "scripts/release.sh")
		if err == nil || !strings.Contains(output, "the key is not the one of packaging/kubernetsn.pub") {
			t.Errorf("got %q, %v", output, err)
		}
		// The release before it is unchanged.
		read(t, unsigned)
		if signatures, _ := filepath.Glob(filepath.Join(folder, "out/*/*.minisig")); len(signatures) > 0 {
			t.Errorf("there are the signatures %q", signatures)
		}
	})
}
