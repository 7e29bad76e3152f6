// SPDX-License-Identifier: Apache-2.0

// Command ktsn-images builds container images from definitions; see images/README.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/kubernetsn/kubernetsn/images/builder"
)

func main() {
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "ktsn-images: %v\n", err)
		os.Exit(1)
	}
}

// variables collects repeated options of the form NAME=PATH.
type variables builder.Sources

func (v variables) String() string { return "" }

func (v variables) Set(text string) error {
	name, path, exists := strings.Cut(text, "=")
	if !exists || name == "" || path == "" {
		return fmt.Errorf("%q is not NAME=PATH", text)
	}
	absolute, err := filepath.Abs(path)
	v[name] = absolute
	return err
}

// options are the options of the command line.
type options struct {
	out, tag    string
	bundle      string
	sources     variables
	definitions []string
	lock        lock
}

func parse(arguments []string, stderr io.Writer) (*options, error) {
	o := &options{sources: variables{}}
	flags := flag.NewFlagSet("ktsn-images", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.out, "out", "out/images", "folder for the archives")
	flags.StringVar(&o.tag, "tag", "dev", "tag of the images")
	flags.StringVar(&o.bundle, "bundle", "", "build nothing; write the images of ARCHIVE.tar... into this OCI `FILE`.tar, and the chart's values for them into FILE.yaml")
	flags.Var(o.sources, "source", "NAME=PATH: what $NAME stands for in definitions; may be repeated")
	flags.StringVar(&o.lock.file, "lock", "images/debian.lock", "lock file of Debian packages, beside the definitions")
	flags.BoolVar(&o.lock.strict, "locked", false, "make no image when a package differs from the lock file; otherwise only warn")
	flags.BoolVar(&o.lock.renew, "write-lock", false, "write the lock file, of the packages that are here")
	flags.Usage = func() {
		fmt.Fprintln(stderr, "Usage: ktsn-images [OPTION]... DEFINITION.yaml...\n       ktsn-images --bundle FILE.tar [--tag TAG] ARCHIVE.tar...\n\nMakes container images as OCI archives.")
		flags.PrintDefaults()
	}
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	o.definitions = flags.Args()
	switch {
	case len(o.definitions) == 0:
		return nil, errors.New("which images? Name their definitions, such as images/*.yaml")
	case o.lock.strict && o.lock.renew:
		return nil, errors.New("--locked and --write-lock exclude each other; --write-lock first, then --locked")
	}
	return o, nil
}

func run(arguments []string, stdout, stderr io.Writer) error {
	o, err := parse(arguments, stderr)
	if err != nil {
		return err
	}
	if o.bundle != "" {
		return o.writeBundle()
	}
	var images []image
	here := builder.Packages{}
	for _, file := range o.definitions {
		image, err := build(file, builder.Sources(o.sources), here)
		if err != nil {
			return err
		}
		images = append(images, image)
	}
	if err := o.lock.check(here, o.definitions, stderr); err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	for _, image := range images {
		if err := image.write(o.out, o.tag, stdout); err != nil {
			return err
		}
	}
	values, err := builder.ValuesOf(o.out)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.out, "values.yaml"), values, 0o644)
}

// writeBundle writes the images of archives into one, and the chart's values for it next to it.
func (o *options) writeBundle() error {
	images, err := builder.WriteBundle(o.bundle, o.tag, o.definitions)
	if err != nil {
		return err
	}
	return builder.WriteValues(strings.TrimSuffix(o.bundle, ".tar")+".yaml", images)
}

// image is a built image that has not been written yet.
type image struct {
	file, name string
	built      v1.Image
}

// build builds an image, and adds the packages of its files.
func build(file string, sources builder.Sources, packages builder.Packages) (image, error) {
	definition, err := builder.Load(file)
	if err != nil {
		return image{}, err
	}
	built, err := builder.Build(definition, sources)
	if err != nil {
		return image{}, err
	}
	installed, err := builder.PackagesOf(built)
	if err != nil {
		return image{}, err
	}
	maps.Copy(packages, installed)
	return image{file, definition.Name, built}, nil
}

// write writes the archive of an image and prints its path and size.
func (i image) write(out, tag string, stdout io.Writer) error {
	archive := filepath.Join(out, strings.TrimSuffix(filepath.Base(i.file), ".yaml")+".tar")
	reference := i.name + ":" + tag
	if err := builder.WriteArchive(archive, reference, i.built); err != nil {
		return err
	}
	info, err := os.Stat(archive)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%-38s %6.1f MB  %s\n", reference, float64(info.Size())/1e6, archive)
	return nil
}
