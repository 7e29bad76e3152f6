// SPDX-License-Identifier: Apache-2.0

// Package builder builds container images from files of this machine, without Docker and without a base image:
//
//	definition (YAML) ──► entries ──► one layer ──► image ──► OCI archive
//	                      files, and the shared
//	                      libraries they need
//
// An image has the files of its definition and the shared libraries that the dynamic loader would load for them, and
// nothing else. Builds are reproducible: entries are sorted, owned by root, and date from 1970. A lock file pins the
// versions of the Debian packages of the files.
//
// No existing builder does this: ko builds images of Go programs only, apko installs packages of Alpine or Wolfi but
// not of Debian, and buildah and umoci archive a root file system that has to be assembled first, which is most of this
// package.
//
// Nothing here keeps state or starts goroutines.
package builder
