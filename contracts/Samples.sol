// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {ERC721} from "@openzeppelin/contracts/token/ERC721/ERC721.sol";
import {ERC1155} from "@openzeppelin/contracts/token/ERC1155/ERC1155.sol";

// The tokens of the development chain. Anyone may mint: they are there to be played with and worth nothing.

contract SampleToken is ERC20 {
    constructor() ERC20("Sample Token", "SMPL") {}

    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }
}

contract SampleCollectible is ERC721 {
    uint256 private nextId = 1;

    constructor() ERC721("Sample Collectible", "SNFT") {}

    /// Mints the next free id. The recipient is not asked (no onERC721Received), so that any account can have one.
    function mint(address to) external returns (uint256 tokenId) {
        while (_ownerOf(nextId) != address(0)) nextId++;
        tokenId = nextId++;
        _mint(to, tokenId);
    }

    function mint(address to, uint256 tokenId) external {
        _mint(to, tokenId);
    }
}

contract SampleItems is ERC1155 {
    string public constant name = "Sample Items";
    string public constant symbol = "SITM";

    constructor() ERC1155("") {}

    function mint(address to, uint256 id, uint256 amount) external {
        _mint(to, id, amount, "");
    }

    function mintBatch(address to, uint256[] calldata ids, uint256[] calldata amounts) external {
        _mintBatch(to, ids, amounts, "");
    }
}
