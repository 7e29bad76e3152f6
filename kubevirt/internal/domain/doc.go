// SPDX-License-Identifier: Apache-2.0

// Package domain edits libvirt domains: the XML of https://libvirt.org/formatdomain.html. Unknown elements stay
// unchanged. Editing is idempotent, because KubeVirt may call several sidecars, and the same one again.
package domain
