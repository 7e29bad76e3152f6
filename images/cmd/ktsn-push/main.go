// SPDX-License-Identifier: Apache-2.0

// Command ktsn-push copies the images of a release into a registry; see docs/guide/releases.md. It is part of each release, and
// needs nothing else.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"runtime"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/kubernetsn/kubernetsn/images/builder"
)

// version is the output of scripts/release-version.sh at build time.
var version = "unknown version"

const usage = `Usage: ktsn-push [--plain-http] ARCHIVE.tar REGISTRY/PREFIX

Copies all images of an OCI archive to REGISTRY/PREFIX/NAME, with their digests and the tag that they have in the
archive, and prints the options of helm that name them. Credentials are those of ` + "`docker login` or `podman login`" + `;
SSL_CERT_FILE names the certificates of a registry's own authority.

`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "ktsn-push: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("ktsn-push", flag.ContinueOnError)
	flags.SetOutput(stderr)
	plain := flags.Bool("plain-http", false, "use HTTP without TLS (always used for registries on this machine)")
	showVersion := flags.Bool("version", false, "print the version")
	flags.Usage = func() { fmt.Fprint(stderr, usage); flags.PrintDefaults() }
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *showVersion {
		_, err := fmt.Fprintf(stdout, "ktsn-push %s (%s)\n", version, runtime.Version())
		return err
	}
	if flags.NArg() != 2 {
		return errors.New("name an archive and where its images go, as in `ktsn-push kubernetsn-images.tar registry.example.org/kubernetsn`")
	}
	// Strict: an address without a registry is an error, and not the Docker Hub.
	options := []name.Option{name.StrictValidation}
	if *plain {
		options = append(options, name.Insecure)
	}
	return push(ctx, flags.Arg(0), strings.TrimSuffix(flags.Arg(1), "/"), options, stdout)
}

// push copies the images of an archive below a prefix.
func push(ctx context.Context, archive, prefix string, options []name.Option, stdout io.Writer) (err error) {
	folder, err := os.MkdirTemp("", "ktsn-push-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	index, err := builder.Extract(archive, folder)
	if err != nil {
		return err
	}
	references := builder.References(index)
	if len(references) == 0 {
		return fmt.Errorf("%s: its index.json names no image", archive)
	}
	for _, reference := range references {
		to, err := name.ParseReference(prefix+"/"+path.Base(reference.Name), options...)
		if err != nil {
			return fmt.Errorf("%s is no place for images: %w", prefix, err)
		}
		if err := pushImage(ctx, layout.Path(folder), reference.Image, to); err != nil {
			return fmt.Errorf("push %s: %w", to, err)
		}
		fmt.Fprintf(stdout, "%s@%s\n", to.Context(), reference.Image.Digest)
	}
	fmt.Fprintf(stdout, "\nInstall the charts of this release with --set image.prefix=%s\n", prefix)
	return nil
}

// pushImage copies an image, or the index of an image with its platforms.
func pushImage(ctx context.Context, from layout.Path, image v1.Descriptor, to name.Reference) error {
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if image.MediaType.IsIndex() {
		root, err := from.ImageIndex()
		if err != nil {
			return err
		}
		index, err := root.ImageIndex(image.Digest)
		if err != nil {
			return err
		}
		return remote.WriteIndex(to, index, options...)
	}
	single, err := from.Image(image.Digest)
	if err != nil {
		return err
	}
	return remote.Write(to, single, options...)
}
