// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"log/slog"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// DriverName is what pods' volumes name.
const DriverName = "csi.kubernetsn.io"

// Driver answers kubelet.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer

	// Node is the name of the node.
	Node string
	// Version is the agent's.
	Version string
	// PodsDir is where kubelet keeps pods' volumes; nothing is mounted elsewhere.
	PodsDir string
	Volumes *Volumes
	Ready   func() bool
	Log     *slog.Logger
}

// GetPluginInfo is part of the specification.
func (d *Driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: DriverName, VendorVersion: d.Version}, nil
}

// GetPluginCapabilities says that there is no controller: nothing is provisioned or attached.
func (d *Driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

// Probe is part of the specification.
func (d *Driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(d.Ready())}, nil
}

// NodeGetCapabilities says that volumes are published without being staged.
func (d *Driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// NodeGetInfo is part of the specification.
func (d *Driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.Node}, nil
}

// NodePublishVolume makes the pod's folder and mounts it. Repeating it changes nothing.
func (d *Driver) NodePublishVolume(ctx context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	volume, err := d.read(request)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := d.Volumes.Publish(ctx, *volume); err != nil {
		d.Log.Error("publish volume", "pod", volume.Namespace+"/"+volume.Pod, "error", err)
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	d.Log.Info("volume published", "pod", volume.Namespace+"/"+volume.Pod, "uid", volume.UID)
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume undoes NodePublishVolume. What is gone already is no error.
func (d *Driver) NodeUnpublishVolume(ctx context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := d.checkPlace(request.GetVolumeId(), request.GetTargetPath()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := d.Volumes.Unpublish(ctx, request.GetVolumeId(), request.GetTargetPath()); err != nil {
		d.Log.Error("unpublish volume", "volume", request.GetVolumeId(), "error", err)
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}
