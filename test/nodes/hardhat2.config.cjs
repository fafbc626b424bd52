// As `npx hardhat init` of version 2 leaves it: the network's own defaults are what is tested.
module.exports = { solidity: '0.8.28' }
