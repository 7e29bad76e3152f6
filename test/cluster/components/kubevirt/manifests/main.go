// SPDX-License-Identifier: Apache-2.0

// Command manifests prints the manifests of KubeVirt's operator, with images that the nodes have.
package main

import (
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/rbac"
	"kubevirt.io/kubevirt/tools/util"
)

const (
	namespace = "kubevirt"
	registry  = "localhost/kubevirt"
	tag       = "dev"
)

func image(name string) string { return registry + "/" + name + ":" + tag }

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

func run() error {
	definition, err := components.NewKubeVirtCrd()
	if err != nil {
		return err
	}
	labels := map[string]string{"kubevirt.io": "", "pod-security.kubernetes.io/enforce": "privileged"}
	objects := []any{
		&corev1.Namespace{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: labels},
		},
		definition, components.NewKubeVirtPriorityClassCR(),
	}
	objects = append(objects, rbac.GetAllOperator(namespace)...)
	objects = append(objects, components.NewOperatorDeployment(namespace, registry, "", tag, "2", "v1.7.0", "",
		image("virt-api"), image("virt-controller"), image("virt-handler"), image("virt-launcher"), "", "", "", "", "", "",
		image("virt-operator"), corev1.PullNever))
	for _, object := range objects {
		if err := util.MarshallObject(object, os.Stdout); err != nil {
			return err
		}
	}
	return nil
}
