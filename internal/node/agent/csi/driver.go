// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"log/slog"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// DriverName is the name of the driver in pods' volumes.
const DriverName = "csi.kubernetsn.io"

// Driver implements the CSI services for kubelet.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer

	// Node is the name of the node.
	Node string
	// Version is the version of the agent.
	Version string
	// PodsDir is kubelet's folder of pods; volumes are mounted only below it.
	PodsDir string
	Volumes *Volumes
	Ready   func() bool
	// Await waits until the node can attach the pod of a volume, for a while; may be nil.
	Await func(ctx context.Context, volume *Volume)
	Log   *slog.Logger
}

// GetPluginInfo implements csi.IdentityServer.
func (d *Driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: DriverName, VendorVersion: d.Version}, nil
}

// GetPluginCapabilities returns no capability: the driver has no controller.
func (d *Driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

// Probe implements csi.IdentityServer.
func (d *Driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(d.Ready())}, nil
}

// NodeGetCapabilities returns no capability: volumes are not staged.
func (d *Driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// NodeGetInfo implements csi.NodeServer.
func (d *Driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.Node}, nil
}

// NodePublishVolume creates the pod's folder and mounts it. It is idempotent.
func (d *Driver) NodePublishVolume(ctx context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	volume, err := d.parseRequest(request)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if d.Await != nil {
		d.Await(ctx, volume)
	}
	if err := d.Volumes.Publish(ctx, *volume); err != nil {
		d.Log.Error("publish volume", "pod", volume.Namespace+"/"+volume.Pod, "error", err)
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	d.Log.Info("volume published", "pod", volume.Namespace+"/"+volume.Pod, "uid", volume.UID)
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume undoes NodePublishVolume. It is idempotent.
func (d *Driver) NodeUnpublishVolume(ctx context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := d.checkTarget(request.GetVolumeId(), request.GetTargetPath()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := d.Volumes.Unpublish(ctx, request.GetVolumeId(), request.GetTargetPath()); err != nil {
		d.Log.Error("unpublish volume", "volume", request.GetVolumeId(), "error", err)
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// InPod reports whether a pod has an inline volume of a driver.
func InPod(pod *corev1.Pod, driver string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
		return volume.CSI != nil && volume.CSI.Driver == driver
	})
}
