// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestValues(t *testing.T) {
	text, err := values([]Made{{"localhost/x/a", "sha256:1"}, {"localhost/x/b", "sha256:2"}})
	want := "image:\n  digests:\n    a: sha256:1\n    b: sha256:2\n  prefix: localhost/x\n"
	if err != nil || !strings.HasSuffix(string(text), want) {
		t.Errorf("got %s, %v", text, err)
	}
}

func TestValuesErrors(t *testing.T) {
	for name, test := range map[string]struct {
		images []Made
		want   string
	}{
		"no image":                 {nil, "there are no images"},
		"images of two places":     {[]Made{{"localhost/x/a", "sha256:1"}, {"localhost/y/b", "sha256:2"}}, "localhost/x/a and localhost/y/b are in different places"},
		"two archives of one name": {[]Made{{"localhost/x/a", "sha256:1"}, {"localhost/x/a", "sha256:2"}}, "two archives are of image localhost/x/a"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := values(test.images); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestValuesOf(t *testing.T) {
	folder, digests := t.TempDir(), map[string]string{}
	for _, name := range []string{"a", "b"} {
		image, err := Build(&Definition{
			Name: "localhost/x/" + name, Title: "an app", User: "0:0",
			Files: []File{{Path: "/app", Source: write(t, "app", name, 0o755)}},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := WriteArchive(filepath.Join(folder, name+".tar"), "localhost/x/"+name+":test", image); err != nil {
			t.Fatal(err)
		}
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests[name] = digest.String()
	}
	text, err := ValuesOf(folder)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Image struct {
			Prefix  string
			Digests map[string]string
		}
	}
	if err := yaml.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Image.Prefix != "localhost/x" || len(got.Image.Digests) != 2 || got.Image.Digests["a"] != digests["a"] || got.Image.Digests["b"] != digests["b"] {
		t.Errorf("of images %v it says %s", digests, text)
	}
	if err := os.WriteFile(filepath.Join(folder, "c.tar"), []byte("something else"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ValuesOf(folder); err == nil || !strings.Contains(err.Error(), "c.tar is no archive of an image") {
		t.Errorf("of a file that is no archive it says %v", err)
	}
}
