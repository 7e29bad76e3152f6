// SPDX-License-Identifier: Apache-2.0

// Package domain edits a domain of libvirt: the XML of https://libvirt.org/formatdomain.html. All that it does not know stays as it
// is. Editing twice is as editing once, since KubeVirt may ask several sidecars, and the same one again.
package domain
