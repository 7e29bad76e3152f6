// SPDX-License-Identifier: Apache-2.0

// Package linkfile is how ktsn-agent tells the containers of a pod of its links: in files of a folder that they have mounted.
//
//	/run/ktsn/links/IFNAME           the link was up once; a Link in JSON
//	/run/ktsn/links/IFNAME.waiting   it was not yet; a sentence that says what is missing
package linkfile

import "net/netip"

const (
	// Folder has the files, in the pod's folder.
	Folder = "links"
	// PodFolder is where containers have it.
	PodFolder = "/run/ktsn/" + Folder
	// Waiting ends the name of the file that says what is missing.
	Waiting = ".waiting"
)

// Link is what the file of a link says.
type Link struct {
	Interface string `json:"interface"`
	Service   string `json:"service"`
	// Addresses are the pod's, with the lengths of their prefixes.
	Addresses []string `json:"addresses"`
	Peer      Peer     `json:"peer"`
	// MTU is that of the interface, in bytes.
	MTU int `json:"mtu"`
}

// Peer is the other end.
type Peer struct {
	Addresses []netip.Addr `json:"addresses"`
	Cluster   string       `json:"cluster,omitempty"`
	Namespace string       `json:"namespace"`
	Pod       string       `json:"pod"`
}
