// SPDX-License-Identifier: Apache-2.0

// Command ktsn-images makes the container images whose definitions it is given; see images/README.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

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
	name, path, found := strings.Cut(text, "=")
	if !found || name == "" || path == "" {
		return fmt.Errorf("%q is not NAME=PATH", text)
	}
	absolute, err := filepath.Abs(path)
	v[name] = absolute
	return err
}

func run(arguments []string, stdout, stderr io.Writer) error {
	sources := variables{}
	flags := flag.NewFlagSet("ktsn-images", flag.ContinueOnError)
	flags.SetOutput(stderr)
	out := flags.String("out", "out/images", "folder for the archives")
	tag := flags.String("tag", "dev", "tag of the images")
	flags.Var(sources, "source", "NAME=PATH: what $NAME stands for in definitions; may be repeated")
	flags.Usage = func() {
		fmt.Fprintln(stderr, "Usage: ktsn-images [OPTION]... DEFINITION.yaml...\n\nMakes container images as OCI archives.")
		flags.PrintDefaults()
	}
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("which images? Name their definitions, such as images/*.yaml")
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	for _, file := range flags.Args() {
		if err := makeImage(file, *out, *tag, builder.Sources(sources), stdout); err != nil {
			return err
		}
	}
	return nil
}

// makeImage makes one image and says where it is and how large.
func makeImage(file, out, tag string, sources builder.Sources, stdout io.Writer) error {
	definition, err := builder.Load(file)
	if err != nil {
		return err
	}
	image, err := builder.Build(definition, sources)
	if err != nil {
		return err
	}
	archive := filepath.Join(out, strings.TrimSuffix(filepath.Base(file), ".yaml")+".tar")
	reference := definition.Name + ":" + tag
	if err := builder.WriteArchive(archive, reference, image); err != nil {
		return err
	}
	info, err := os.Stat(archive)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%-34s %6.1f MB  %s\n", reference, float64(info.Size())/1e6, archive)
	return nil
}
