// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Definition describes an image. images/README.md has an example.
type Definition struct {
	// Name is the image's name in pods, without a tag.
	Name string `json:"name"`
	// Title describes the image in a line.
	Title string `json:"title"`
	// Files are put into the image, with the libraries that they need.
	Files []File `json:"files"`
	// Directories are created empty.
	Directories []Directory `json:"directories,omitempty"`
	// Links are symbolic links.
	Links []Link `json:"links,omitempty"`
	// User is "UID:GID", in numbers because there is no /etc/passwd.
	User       string   `json:"user"`
	Entrypoint []string `json:"entrypoint,omitempty"`
	// Environment holds "NAME=VALUE".
	Environment []string `json:"environment,omitempty"`
}

// File is a file, or with a pattern several.
type File struct {
	// Path is the file's path in the image; with a trailing "/" it is the folder for all files that Source matches.
	Path string `json:"path"`
	// Source is the path on this machine: absolute, or beginning with a variable such as $BIN. It may be a pattern of
	// path.Match.
	Source string `json:"source"`
	// Optional allows that the file does not exist.
	Optional bool `json:"optional,omitempty"`
}

// Directory is an empty directory.
type Directory struct {
	Path string `json:"path"`
	// Mode is written in octal, "1777".
	Mode string `json:"mode"`
}

// Link is a symbolic link.
type Link struct {
	Path string `json:"path"`
	To   string `json:"to"`
}

// Load reads a definition. Unknown fields are rejected.
func Load(file string) (*Definition, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read image definition: %w", err)
	}
	var definition Definition
	if err := yaml.UnmarshalStrict(text, &definition); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := definition.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &definition, nil
}

func (d *Definition) check() error {
	switch {
	case d.Name == "" || strings.ContainsAny(d.Name, ": "):
		return fmt.Errorf("name: %q is no image name; give one without a tag, such as localhost/kubernetsn/ktsnd", d.Name)
	case d.Title == "":
		return errors.New("title: missing; say in a line what the image is for")
	case len(d.Files) == 0:
		return errors.New("files: missing; name at least one")
	}
	var uid, gid uint32
	if _, err := fmt.Sscanf(d.User+"\n", "%d:%d\n", &uid, &gid); err != nil {
		return fmt.Errorf("user: %q is not UID:GID in numbers, such as 65532:65532", d.User)
	}
	for i, file := range d.Files {
		if !path.IsAbs(file.Path) {
			return fmt.Errorf("files[%d].path: %q is not absolute", i, file.Path)
		}
		if file.Source == "" {
			return fmt.Errorf("files[%d].source: missing; say where %s comes from", i, file.Path)
		}
	}
	for i, link := range d.Links {
		if !path.IsAbs(link.Path) || link.To == "" {
			return fmt.Errorf("links[%d]: path %q is not absolute, or to %q is empty", i, link.Path, link.To)
		}
	}
	return nil
}

// Sources are the variables of File.Source. BIN is the folder of the project's built programs.
type Sources map[string]string

// expand replaces the variables of a source and returns the matching files.
func (s Sources) expand(file File) ([]string, error) {
	var unknown string
	pattern := os.Expand(file.Source, func(name string) string {
		value, there := s[name]
		if !there {
			unknown = name
		}
		return value
	})
	if unknown != "" {
		return nil, fmt.Errorf("source %s: nobody gave $%s a value", file.Source, unknown)
	}
	if !filepath.IsAbs(pattern) {
		return nil, fmt.Errorf("source %s: not absolute", file.Source)
	}
	existing, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", pattern, err)
	}
	if len(existing) == 0 && !file.Optional {
		return nil, fmt.Errorf("source %s: no such file; build it first", pattern)
	}
	return existing, nil
}
