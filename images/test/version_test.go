// SPDX-License-Identifier: Apache-2.0

package test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestReleaseVersion(t *testing.T) {
	needs(t, "git")
	number := strings.TrimSpace(read(t, filepath.Join(root(t), "internal/shared/version/VERSION")))
	const changed = "internal/shared/version/version.go"
	for name, test := range map[string]struct {
		tags    []string
		changed string // a file
		// want is the version, refused the error message; one of them is empty.
		want, refused string
	}{
		"without a tag":            {nil, "", `^` + number + `-dev\.g[0-9a-f]{12}\n$`, ""},
		"without a tag, changed":   {nil, changed, `^` + number + `-dev\.g[0-9a-f]{12}\.changes\n$`, ""},
		"of the tag":               {[]string{"v" + number}, "", `^` + number + `\n$`, ""},
		"with a tag of no release": {[]string{"nightly"}, "", `-dev\.g`, ""},
		"of another tag":           {[]string{"v9.9.9"}, "", "", "this commit has the tag v9.9.9, and internal/shared/version/VERSION has " + number},
		"of two tags":              {[]string{"v" + number, "v9.9.9"}, "", "", "this commit has the tag v9.9.9"},
		"of the tag, changed":      {[]string{"v" + number}, changed, "", "files differ from the tag v" + number},
		"of the tag, extra file":   {[]string{"v" + number}, "charts/values.yaml", "", "files differ from the tag v" + number},
	} {
		t.Run(name, func(t *testing.T) {
			folder := repository(t, t.TempDir(), "scripts/release-version.sh", "scripts/commit.sh", "internal/shared/version")
			for _, tag := range test.tags {
				must(t, folder, "git", "tag", tag)
			}
			if test.changed != "" {
				write(t, filepath.Join(folder, test.changed), "changed")
			}
			output, err := command(folder, nil, "scripts/release-version.sh")
			if test.refused != "" {
				if err == nil || !strings.Contains(output, test.refused) {
					t.Errorf("got %q, %v, want %q", output, err, test.refused)
				}
				return
			}
			if err != nil || !regexp.MustCompile(test.want).MatchString(output) {
				t.Errorf("got %q, %v, want %s", output, err, test.want)
			}
		})
	}
}
