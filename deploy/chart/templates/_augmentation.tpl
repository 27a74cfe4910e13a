{{/*
The schema of an Augmentation. Quantities are texts, so that rules can compare them. What rules cannot say, the operator says in
a condition.
*/}}
{{- define "fairlead.augmentation.spec" -}}
type: object
description: A device, and the slice of this cluster that is lent to it.
required: [device, storage]
x-kubernetes-validations:
  - rule: self.device == oldSelf.device
    message: "device cannot be changed: data belongs to one device; create another augmentation"
  - rule: "!has(self.service) || !has(self.service.nodePort) || !has(self.service.type) || self.service.type != 'ClusterIP'"
    message: "a ClusterIP service has no nodePort"
properties:
  device: {type: string, minLength: 1, maxLength: 40, pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$', description: 'The device that it is for, by the name under which it joins.'}
  storage:
    type: object
    description: The device's files. They outlive the augmentation unless deleteData says otherwise.
    required: [size]
    x-kubernetes-validations:
      - rule: "!has(self.fast) || !isQuantity(self.fast) || !isQuantity(self.size) || quantity(self.fast).isLessThan(quantity(self.size))"
        message: "fast must be less than size: it is a part of it"
      - rule: "!has(self.classes) || size(self.classes) == 1 || has(self.fast)"
        message: "a second class is for a second tier: set fast, or name one class"
      - rule: "!has(self.reclaim) || self.reclaim == 0 || !has(self.fast)"
        message: "data on two tiers is not moved to a smaller claim: leave reclaim out; the quota is smaller at once"
      - rule: has(self.fast) == has(oldSelf.fast)
        message: "a fast tier cannot be added or removed later: create another augmentation"
      - rule: "has(self.classes) == has(oldSelf.classes) && (!has(self.classes) || self.classes == oldSelf.classes)"
        message: "classes cannot be changed: a volume keeps its class; create another augmentation"
      - rule: "!has(self.accessMode) || !has(oldSelf.accessMode) || self.accessMode == oldSelf.accessMode"
        message: "accessMode cannot be changed: a volume keeps it; create another augmentation"
    properties:
      size:
        {{- include "fairlead.augmentation.amount" "How much the device may store, such as 10Gi. A larger size grows the claim where its class allows that; a smaller one is a quota at once, and a smaller claim with reclaim." | nindent 8 }}
      reclaim: {type: integer, format: int64, minimum: 0, description: 'Another number above zero has the data moved to a claim of this size, if the present one is larger: copied, compared and switched, under a short freeze of writes. 0: it is not moved, and a move that is not done is given up.'}
      fast:
        {{- include "fairlead.augmentation.amount" "The part of it on the fast tier; without it there is one tier." | nindent 8 }}
      classes:
        type: array
        description: 'The storage class of the only tier, or of the fast and the slow one; default: the cluster''s default class.'
        minItems: 1
        maxItems: 2
        items: {type: string, minLength: 1, maxLength: 253, pattern: '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$'}
      accessMode: {type: string, enum: [ReadWriteOnce, ReadWriteMany], default: ReadWriteOnce, description: 'ReadWriteOnce: store and application share a node. ReadWriteMany: they may be on any two, where the class can do that.'}
  application:
    type: object
    description: The application beside the data, in a pod of its own; without it there is storage alone. The files are in the folder that FAIRLEAD_DATA names.
    required: [image]
    properties:
      image: {type: string, minLength: 1, maxLength: 512, description: Its image.}
      command:
        type: array
        description: 'The program and its arguments; default: those of the image.'
        minItems: 1
        maxItems: 64
        items: {type: string, maxLength: 4096}
      env:
        type: array
        description: Its environment.
        maxItems: 64
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [name]
        items:
          type: object
          required: [name]
          properties:
            name: {type: string, minLength: 1, maxLength: 128, pattern: '^[A-Za-z_][A-Za-z0-9_]*$', description: The name of the variable.}
            value: {type: string, maxLength: 4096, description: Its value.}
      digest: {type: string, maxLength: 71, pattern: '^(sha256:)?[0-9a-f]{64}$', description: 'SHA-256 of the application on the device, of its image or of its program; default: what the device reports.'}
      accelerator:
        type: object
        description: Its share of an accelerator, placed by the fairlead scheduler and enforced where the node can.
        required: [memory]
        properties:
          memory:
            {{- include "fairlead.augmentation.amount" "Its memory, such as 2Gi." | nindent 12 }}
          compute: {type: integer, minimum: 1, maximum: 100, description: 'Percent of its compute; default: no limit.'}
      resources:
        type: object
        description: What its container requests and may use.
        properties:
          {{- range list "requests" "limits" }}
          {{ . }}:
            type: object
            maxProperties: 16
            additionalProperties: {x-kubernetes-int-or-string: true, maxLength: 32}
          {{- end }}
      ports:
        type: array
        description: Where it listens; they become its Service.
        minItems: 1
        maxItems: 16
        x-kubernetes-list-type: set
        items: {type: integer, minimum: 1, maximum: 65535}
      user: {type: integer, format: int64, minimum: 1, maximum: 4294967294, default: 10001, description: The user that it and the store run as.}
      writableRoot: {type: boolean, description: 'True: it may write to the file system of its image; default false.'}
      imagePullPolicy: {type: string, enum: [Always, IfNotPresent, Never], description: When its image is pulled.}
  service:
    type: object
    description: How the device reaches the store.
    properties:
      type: {type: string, enum: [NodePort, LoadBalancer, ClusterIP], default: NodePort, description: 'The type of the Service; ClusterIP: inside the cluster alone.'}
      nodePort: {type: integer, minimum: 1, maximum: 65535, description: 'The port of each node; default: one that is free.'}
      hosts:
        type: array
        description: Names or addresses by which the device reaches it, for its certificate; the first is in its URL.
        minItems: 1
        maxItems: 8
        items: {type: string, minLength: 1, maxLength: 253, pattern: '^[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?$'}
  rotation: {type: integer, format: int64, minimum: 0, description: 'Another number has another token made; the one before is accepted for ten more minutes.'}
  deleteData: {type: boolean, description: 'True: its claims are deleted with it. Default false: they stay, and an augmentation of the same name finds them.'}
  image: {type: string, minLength: 1, maxLength: 512, description: 'The image of the store; default: that of the operator''s release.'}
  imagePullPolicy: {type: string, enum: [Always, IfNotPresent, Never], description: When the image of the store is pulled.}
  imagePullSecrets:
    type: array
    description: Secrets of this namespace for the registry.
    maxItems: 8
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [name]
    items:
      type: object
      required: [name]
      properties:
        name: {{ include "fairlead.pipeline.name" "The name of a Secret of this namespace." }}
  schedulerName: {type: string, minLength: 1, maxLength: 253, default: fairlead, description: The scheduler of its pods.}
  nodeSelector:
    type: object
    description: Labels that the nodes of its pods must have.
    maxProperties: 32
    additionalProperties: {type: string, maxLength: 63}
  tolerations:
    {{- include "fairlead.kind.tolerations" "Taints of nodes that its pods tolerate." | nindent 4 }}
{{- end }}

{{- define "fairlead.augmentation.amount" -}}
type: string
maxLength: 32
description: {{ . | quote }}
x-kubernetes-validations:
  - rule: "isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))"
    message: "write an amount above zero, such as 10Gi"
{{- end }}

{{- define "fairlead.augmentation.status" -}}
type: object
description: What the operator has seen and decided.
properties:
  observedGeneration: {type: integer, format: int64, description: The generation of the spec that this is about.}
  quota: {type: string, maxLength: 32, description: How much the store accepts now.}
  used: {type: string, maxLength: 32, description: "What the store holds, in whole mebibytes."}
  peak: {type: string, maxLength: 32, description: The most that it has held.}
  node: {type: string, maxLength: 253, description: The node of the store.}
  url: {type: string, maxLength: 512, description: Where the device reaches the store.}
  fingerprint: {type: string, maxLength: 71, description: The fingerprint of the store's certificate.}
  reclaim:
    type: object
    description: The move of the data to a smaller claim.
    properties:
      request: {type: integer, format: int64, description: The number of storage.reclaim that this is about.}
      phase: {type: string, maxLength: 32, description: 'Waiting, Copying, Freezing, Verifying, Switching, Done or Failed.'}
      reason: {type: string, maxLength: 64, description: Of a failure.}
      message: {type: string, maxLength: 1024, description: 'What is done, or why it failed.'}
      frozenSince: {type: string, format: date-time, description: Since when writes are refused.}
      freezeSeconds: {type: integer, format: int64, description: For how long they were refused.}
  claims:
    type: array
    description: The claims with the data.
    maxItems: 8
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [name]
    items:
      type: object
      required: [name]
      properties:
        name: {type: string, maxLength: 253}
        part: {type: string, maxLength: 63, description: 'data: everything, or the slow tier; fast: the fast tier.'}
        requested: {type: string, maxLength: 32, description: How much it asks for.}
        capacity: {type: string, maxLength: 32, description: How much its volume has.}
  pods:
    type: array
    description: The pods of the store and of the application.
    maxItems: 8
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [part]
    items:
      type: object
      required: [part]
      properties:
        part: {type: string, maxLength: 63}
        pod: {type: string, maxLength: 253}
        node: {type: string, maxLength: 253}
        ready: {type: boolean}
        message: {type: string, maxLength: 1024, description: Why it is not ready.}
  conditions:
    {{- include "fairlead.kind.conditions" "Accepted: the spec is sound. StorageReady: each claim has its volume. Sized: quota and claims are as asked. Reclaimed: the data is in a smaller claim, where that is asked for. DeviceJoined: the device has joined. SameApplication: the pod runs what the device runs. Ready: it can be used. Progressing: objects change." | nindent 4 }}
{{- end }}
