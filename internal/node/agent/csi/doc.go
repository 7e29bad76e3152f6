// SPDX-License-Identifier: Apache-2.0

// Package csi is the node part of a CSI driver, csi.kubernetsn.io. Its volumes are inline and ephemeral: a folder with
// libktsn.so and the pod's own socket of ktsnd, which kubelet mounts read-only into the pod:
//
//	/run/ktsn/pods/UID/             the pod's folder on the node
//	  app.sock                        ktsnd listens here
//	  libktsn.so                      the pod's own copy of the library as of its creation
//	…/volumes/…~csi/NAME/mount      the same folder, mounted read-only for kubelet
//
// The folder is mounted rather than its files, so that a pod sees the socket of a restarted ktsnd. The library stays
// while ktsnd is away, and lets a program that starts meanwhile know that its pod is on a network (decision 12): it is
// created before the socket, and removed after the mount.
//
// Published volumes are recorded next to the folders on the same file system in memory: a reboot removes records,
// folders and mounts together. Every step can be repeated after the agent was killed.
//
// Threads: gRPC calls in its own goroutines; a lock per pod serialises publishing and unpublishing.
package csi
