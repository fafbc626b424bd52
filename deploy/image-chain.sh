#!/bin/sh
# Adds the development chain (anvil) to a tree of image-tree.sh: deploy/image-chain.sh TARGET. For trying only.
set -eu
program=$(cd "$1/opt/chatelaine" && pwd)
cd "$program/runtime/anvil"
name=$(node --input-type=module -e "
  import { anvilOf } from '$program/scripts/anvil.mjs'
  const { name, version } = anvilOf('$program')
  console.log(name + '@' + version)")
npm install --no-save --package-lock=false --ignore-scripts "$name"
node --input-type=module -e "
  import { anvilOf, checkPin } from '$program/scripts/anvil.mjs'
  import { symlinkSync } from 'node:fs'
  const anvil = anvilOf('$program')
  const wrong = checkPin(anvil)
  if (wrong !== undefined) throw new Error(wrong)
  symlinkSync(anvil.binary.replace('$program', '/opt/chatelaine'), '$program/../../usr/local/bin/anvil')"
