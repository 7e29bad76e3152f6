// SPDX-License-Identifier: Apache-2.0

// Package builder makes container images out of files of this machine, without Docker and without a base image:
//
//	definition (YAML) ──► entries ──► one layer ──► image ──► OCI archive
//	                      files, and the shared
//	                      libraries they need
//
// An image holds what its definition names and the libraries that the dynamic loader would load for it, and
// nothing else. The same files give the same bytes: entries are sorted, belong to
// root and date from 1970. A lock file says of which versions of Debian packages the files are to be.
//
// Nothing here keeps state or starts goroutines.
package builder
