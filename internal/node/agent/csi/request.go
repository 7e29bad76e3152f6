// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// Pod information from kubelet, if the CSIDriver object requests it (podInfoOnMount).
const (
	contextPrefix    = "csi.storage.k8s.io/"
	contextEphemeral = contextPrefix + "ephemeral"
	contextUID       = contextPrefix + "pod.uid"
	contextName      = contextPrefix + "pod.name"
	contextNamespace = contextPrefix + "pod.namespace"
)

// uidForm is stricter than ktsnd's form of identities, because the UID names a folder.
var uidForm = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9]{0,63}$`)

// parseRequest returns the requested volume.
func (d *Driver) parseRequest(request *csi.NodePublishVolumeRequest) (*Volume, error) {
	if err := d.checkTarget(request.GetVolumeId(), request.GetTargetPath()); err != nil {
		return nil, err
	}
	if err := checkCapability(request.GetVolumeCapability()); err != nil {
		return nil, err
	}
	attributes := request.GetVolumeContext()
	for name := range attributes {
		if !strings.HasPrefix(name, contextPrefix) {
			return nil, fmt.Errorf("volumeAttributes: %s: unknown attribute; this driver has none", name)
		}
	}
	if attributes[contextEphemeral] != "true" {
		return nil, fmt.Errorf("%s supports inline volumes only; define the volume in the pod's spec.volumes", DriverName)
	}
	volume := &Volume{
		ID: request.GetVolumeId(), Target: filepath.Clean(request.GetTargetPath()),
		UID: attributes[contextUID], Namespace: attributes[contextNamespace], Pod: attributes[contextName],
	}
	if !uidForm.MatchString(volume.UID) || volume.Namespace == "" || volume.Pod == "" {
		return nil, fmt.Errorf("kubelet sends no information about the pod (%s %q); the CSIDriver object %s must have podInfoOnMount: true",
			contextUID, volume.UID, DriverName)
	}
	return volume, nil
}

func (d *Driver) checkTarget(id, target string) error {
	switch {
	case id == "":
		return errors.New("volume_id: missing")
	case target == "":
		return errors.New("target_path: missing")
	case !strings.HasPrefix(filepath.Clean(target), filepath.Clean(d.PodsDir)+"/"):
		return fmt.Errorf("target_path: %s is not below %s, where this driver mounts; start the agent with kubelet's own folder", target, d.PodsDir)
	}
	return nil
}

func checkCapability(capability *csi.VolumeCapability) error {
	switch {
	case capability == nil:
		return errors.New("volume_capability: missing")
	case capability.GetMount() == nil:
		return fmt.Errorf("volume_capability: %s does not support block volumes", DriverName)
	}
	return nil
}
