# SPDX-License-Identifier: Apache-2.0
# Header, libraries, program, pkg-config files, CMake package and example topologies.

include(CMakePackageConfigHelpers)

set(peal_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/peal)

install(DIRECTORY include/peal DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh")
install(TARGETS peal peal-rt EXPORT pealTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# Apart, because only who links statically needs to find libxml2.
install(TARGETS peal-static peal-rt-static EXPORT pealStaticTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT pealTargets NAMESPACE peal:: DESTINATION ${peal_package_dir})
install(EXPORT pealStaticTargets NAMESPACE peal:: DESTINATION ${peal_package_dir})

configure_package_config_file(cmake/pealConfig.cmake.in pealConfig.cmake
                              INSTALL_DESTINATION ${peal_package_dir})
write_basic_package_version_file(pealConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/pealConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/pealConfigVersion.cmake
        DESTINATION ${peal_package_dir})

if(TARGET peal-cli)
    # Found beside the program, wherever the tree is put.
    file(RELATIVE_PATH peal_lib_from_bin /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
    set_target_properties(peal-cli PROPERTIES INSTALL_RPATH "$ORIGIN/${peal_lib_from_bin}")
    install(TARGETS peal-cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# Relative to the .pc file, so that an installed tree can be moved.
file(RELATIVE_PATH peal_prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" peal_prefix_from_pc "${peal_prefix_from_pc}")
set(peal_lua_private "")
if(PEAL_HAVE_LUA)
    get_filename_component(peal_lua_private ${PEAL_LUA_LIBRARY} NAME)
    string(REGEX REPLACE "^lib(.*)\\.a$" "-l\\1" peal_lua_private "${peal_lua_private}")
endif()
set(peal_verbs_private "")
if(PEAL_HAVE_VERBS)
    set(peal_verbs_private -libverbs)
endif()
foreach(pc peal peal-rt)
    configure_file(cmake/${pc}.pc.in ${pc}.pc @ONLY)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${pc}.pc
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

install(DIRECTORY examples/topologies DESTINATION ${CMAKE_INSTALL_DATADIR}/peal
        FILES_MATCHING PATTERN "*.xml")
install(DIRECTORY examples/profiles DESTINATION ${CMAKE_INSTALL_DATADIR}/peal
        FILES_MATCHING PATTERN "*.xml")
install(DIRECTORY examples/policies lua/meta DESTINATION ${CMAKE_INSTALL_DATADIR}/peal
        FILES_MATCHING PATTERN "*.lua")
install(DIRECTORY schema/ DESTINATION ${CMAKE_INSTALL_DATADIR}/peal/schema
        FILES_MATCHING PATTERN "*.schema.json")
file(GLOB peal_man_pages CONFIGURE_DEPENDS docs/*.1)
if(peal_man_pages)
    install(FILES ${peal_man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
