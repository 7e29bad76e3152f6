// SPDX-License-Identifier: Apache-2.0

// Package csi is the node part of a CSI driver, csi.kubernetsn.io. Its volumes are inline and ephemeral: a folder with
// libktsn.so and the pod's own socket to ktsnd, which kubelet has mounted into the pod, read only:
//
//	/run/ktsn/pods/UID/             the pod's folder, on the node
//	  app.sock                        ktsnd listens here
//	  libktsn.so                      a copy of the library of the day on which the pod was made, its own
//	…/volumes/…~csi/NAME/mount      the same folder, mounted read only where kubelet wants it
//
// A folder is mounted rather than its files, so that a pod sees the socket of a ktsnd that was started anew. The library stays
// while ktsnd is away, and tells a program that starts meanwhile that its pod is on a network (decision 12): it is put there
// before the socket, and removed after the mount.
//
// What was published is written down beside the folders, on the same file system in memory: a reboot takes records,
// folders and mounts together. Every step may have been done before, by an agent that was killed behind it.
//
// Threads: gRPC calls in its own goroutines; one lock for each pod keeps publishing and unpublishing apart.
package csi
